-- The answer is the running jobs whose lease has run out. ARGV: most.
local found, ids = {}, redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, ARGV[2])
for i = 1, #ids do
	local raw = redis.call('HGET', jobs, ids[i])
	if raw then
		found[#found + 1] = ids[i]
		found[#found + 1] = raw
	else
		redis.call('ZREM', leases, ids[i]) -- Redis has evicted the rest
		redis.call('ZREM', running, ids[i])
	end
end
return found
