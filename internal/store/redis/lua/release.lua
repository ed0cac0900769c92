-- KEYS: due, wait. ARGV: job, token, attempt, channel, instance. The answer is 1 when the lease is lost.
local id, token, attempt = ARGV[2], ARGV[3], tonumber(ARGV[4])
local due, waiting = KEYS[DECLARED + 1], KEYS[DECLARED + 2]
local j = load_job(id)
if not j or j.token ~= token then
	return 1
end
if j.state ~= RUNNING then
	return j.state == PENDING and j.attempts == attempt - 1 and 0 or 1 -- sent again, or ended otherwise
end
if j.attempts ~= attempt then
	return 1
end
at_limit()
local ring = nothing_due(due)
j.state, j.attempts, j.due = PENDING, attempt - 1, now
redis.call('ZADD', due, now, id)
redis.call('ZADD', waiting, j.created, id)
redis.call('HSET', jobs, id, pack_job(j))
redis.call('ZREM', leases, id)
redis.call('ZREM', running, id)
count(j.lane, RUNNING, -1)
count(j.lane, PENDING, 1)
if ring then
	redis.call('PUBLISH', ARGV[5], ARGV[6])
end
return 0
