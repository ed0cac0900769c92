-- Kills the overdue jobs of one lane that nobody has noted for too long. KEYS: due, wait, final and ended of dead.
-- ARGV: lane, queue, after, most, reason, error. The answer is the killed jobs.
local lane, queue, before, killed = ARGV[2], ARGV[3], now - tonumber(ARGV[4]), {}
if tonumber(redis.call('HGET', noted, lane) or 0) >= before then
	return killed
end
local ids = redis.call('ZRANGEBYSCORE', KEYS[DECLARED + 1], '-inf', '(' .. whole(before), 'LIMIT', 0, ARGV[5])
at_limit()
for i = 1, #ids do
	local id = ids[i]
	local j = load_job(id)
	if j then
		j.state, j.ended, j.due, j.reason, j.error = DEAD, now, now, ARGV[6], ARGV[7]
		local raw = pack_job(j)
		redis.call('ZADD', KEYS[DECLARED + 3], j.created, id)
		redis.call('ZADD', KEYS[DECLARED + 4], now, id)
		redis.call('HINCRBY', counts, queue, -1)
		count(lane, PENDING, -1)
		count(lane, DEAD, 1)
		redis.call('HSET', jobs, id, raw)
		killed[#killed + 1] = id
		killed[#killed + 1] = raw
	else
		lose(lane, PENDING)
	end
	redis.call('ZREM', KEYS[DECLARED + 1], id)
	redis.call('ZREM', KEYS[DECLARED + 2], id)
end
return killed
