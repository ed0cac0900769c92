-- KEYS: due, wait, then final and ended of dead and of replayed. ARGV: job, new job, whether forced, queue, channel,
-- instance. The answer is whether it was replayed, the old job's state (-1 for an unknown job), and whether it is pruned.
local id, copy_id, forced = ARGV[2], ARGV[3], ARGV[4] == '1'
local due, waiting = KEYS[DECLARED + 1], KEYS[DECLARED + 2]
local j = load_job(id)
if not j then
	return { 0, -1, 0 }
end
local again = load_job(copy_id)
if again then
	return { again.replay_of == id and 1 or 0, j.state, 0 }
end
if j.pruned == 1 then
	return { 0, j.state, 1 }
end
if not (j.state == DEAD or forced and (j.state == 2 or j.state == REPLAYED)) then
	return { 0, j.state, 0 }
end

at_limit()
local ring = nothing_due(due)
local created = next_stamp()
redis.call('HSET', meta, 'clock', whole(created))
redis.call('HSET', jobs, copy_id, pack_job({ state = PENDING, pruned = 0, attempts = 0, failures = 0, lost = 0,
	created = created, due = now, ended = 0, claimed = 0, event = j.event, token = NONE, replay_of = id, lane = j.lane,
	info = j.info, reason = '', error = '' }))
redis.call('ZADD', due, now, copy_id)
redis.call('ZADD', waiting, created, copy_id)
redis.call('HSET', replays, j.event, (redis.call('HGET', replays, j.event) or '') .. copy_id)
redis.call('HINCRBY', counts, ARGV[5], 1)
count(j.lane, PENDING, 1)
if j.state == DEAD then
	redis.call('ZADD', KEYS[DECLARED + 5], j.created, id)
	redis.call('ZADD', KEYS[DECLARED + 6], now, id)
	count(j.lane, DEAD, -1)
	count(j.lane, REPLAYED, 1)
	j.state, j.ended = REPLAYED, now
	redis.call('HSET', jobs, id, pack_job(j))
	redis.call('ZREM', KEYS[DECLARED + 3], id)
	redis.call('ZREM', KEYS[DECLARED + 4], id)
end
if ring then
	redis.call('PUBLISH', ARGV[6], ARGV[7])
end
return { 1, j.state, 0 }
