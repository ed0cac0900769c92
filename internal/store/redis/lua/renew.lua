-- ARGV: lease, then job, token and attempt of each. The answer is the numbers of those that are lost.
local lease, lost = tonumber(ARGV[2]), {}
at_limit()
for i = 3, #ARGV, 3 do
	local j = load_job(ARGV[i])
	if j and j.state == RUNNING and j.token == ARGV[i + 1] and j.attempts == tonumber(ARGV[i + 2]) then
		redis.call('ZADD', leases, now + lease, ARGV[i])
	else
		lost[#lost + 1] = i / 3 - 1
	end
end
return lost
