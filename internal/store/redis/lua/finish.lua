-- KEYS: due and wait for the outcome pending, else final and ended. ARGV: job, token, attempt, state, retry in, reason,
-- failures, error, row, queue, channel, instance. The answer is 1 when the lease is lost.
local id, token, attempt, state = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local a, b = KEYS[DECLARED + 1], KEYS[DECLARED + 2]
local j = load_job(id)
if not j or j.token ~= token or j.attempts ~= attempt then
	return 1
end
if j.state ~= RUNNING then
	-- Sent again: the first time ended this life and kept the token. A life that recovery ended counts in lost.
	return j.lost > 0 and 1 or 0
end

at_limit()
redis.call('HSET', ledger, id, (redis.call('HGET', ledger, id) or '') .. ARGV[10])
j.state, j.lost, j.due, j.reason, j.failures = state, 0, now, ARGV[7], j.failures + tonumber(ARGV[8])
if ARGV[9] ~= '' then
	j.error = ARGV[9]
end
local ring = false
if state == PENDING then
	j.due = now + tonumber(ARGV[6])
	ring = j.due <= now and nothing_due(a)
	redis.call('ZADD', a, j.due, id)
	redis.call('ZADD', b, j.created, id)
else
	j.ended = now
	redis.call('ZADD', a, j.created, id)
	redis.call('ZADD', b, now, id)
	redis.call('HINCRBY', counts, ARGV[11], -1)
end
redis.call('HSET', jobs, id, pack_job(j))
redis.call('ZREM', leases, id)
redis.call('ZREM', running, id)
count(j.lane, RUNNING, -1)
count(j.lane, state, 1)
if ring then
	redis.call('PUBLISH', ARGV[12], ARGV[13])
end
return 0
