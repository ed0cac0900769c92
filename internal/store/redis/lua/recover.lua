-- KEYS: due and wait, final and ended of dead. ARGV: job, token, attempt, row, error, reason, most lost lives, queue,
-- channel, instance. The answer is the job as it is now, or nothing when the life ended otherwise.
local id = ARGV[2]
local j = load_job(id)
local ends = redis.call('ZSCORE', leases, id)
if not j or not ends or tonumber(ends) > now or j.state ~= RUNNING or j.token ~= ARGV[3] or j.attempts ~= tonumber(ARGV[4]) then
	return false
end
at_limit()
redis.call('HSET', ledger, id, (redis.call('HGET', ledger, id) or '') .. ARGV[5])
j.lost, j.error, j.due = j.lost + 1, ARGV[6], now
local ring = false
if j.lost >= tonumber(ARGV[8]) then
	j.state, j.reason, j.ended = DEAD, ARGV[7], now
	redis.call('ZADD', KEYS[DECLARED + 3], j.created, id)
	redis.call('ZADD', KEYS[DECLARED + 4], now, id)
	redis.call('HINCRBY', counts, ARGV[9], -1)
else
	j.state = PENDING
	ring = nothing_due(KEYS[DECLARED + 1])
	redis.call('ZADD', KEYS[DECLARED + 1], now, id)
	redis.call('ZADD', KEYS[DECLARED + 2], j.created, id)
end
local raw = pack_job(j)
redis.call('HSET', jobs, id, raw)
redis.call('ZREM', leases, id)
redis.call('ZREM', running, id)
count(j.lane, RUNNING, -1)
count(j.lane, j.state, 1)
if ring then
	redis.call('PUBLISH', ARGV[10], ARGV[11])
end
return raw
