-- The answer is the running jobs whose lease has run out. ARGV: most. Leases without a running job are removed: Redis has
-- lost the rest.
local found, ids = {}, redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, ARGV[2])
for i = 1, #ids do
	local j, raw = load_job(ids[i])
	if j and j.state == RUNNING then
		found[#found + 1] = ids[i]
		found[#found + 1] = raw
	else
		redis.call('ZREM', leases, ids[i])
		redis.call('ZREM', running, ids[i])
	end
end
return found
