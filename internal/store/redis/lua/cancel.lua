-- KEYS: due, wait, final and ended of cancelled. ARGV: job, state, queue, an id of this call. The answer is the job's state
-- before, -1 for none. The call's id takes the place of the token, so that a call sent again gets the first answer.
local id, state = ARGV[2], tonumber(ARGV[3])
local j = load_job(id)
if not j then
	return -1
end
if j.state == PENDING then
	at_limit()
	redis.call('ZADD', KEYS[DECLARED + 3], j.created, id)
	redis.call('ZADD', KEYS[DECLARED + 4], now, id)
	redis.call('HINCRBY', counts, ARGV[4], -1)
	count(j.lane, PENDING, -1)
	count(j.lane, state, 1)
	j.state, j.ended, j.due, j.reason, j.token = state, now, now, '', ARGV[5]
	redis.call('HSET', jobs, id, pack_job(j))
	redis.call('ZREM', KEYS[DECLARED + 1], id)
	redis.call('ZREM', KEYS[DECLARED + 2], id)
	return PENDING
end
return j.state == state and j.token == ARGV[5] and PENDING or j.state
