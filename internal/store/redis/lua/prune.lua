-- Takes payload and ledger of one job. KEYS: the event, final and ended. ARGV: job, event, state, how long to keep it.
-- Another instance may have been here since the job was found, so everything is looked at again.
local id, event, state = ARGV[2], ARGV[3], tonumber(ARGV[4])
local event_key = KEYS[DECLARED + 1]
at_limit()
local j = load_job(id)
if j and j.pruned == 0 and j.state == state and j.ended > now - tonumber(ARGV[5]) then
	return 0
end
redis.call('ZREM', KEYS[DECLARED + 2], id)
redis.call('ZREM', KEYS[DECLARED + 3], id)
if not j or j.pruned == 1 or j.state ~= state then
	return 0
end
redis.call('HDEL', ledger, id)
count(j.lane, state, -1)
j.pruned, j.token, j.info, j.error = 1, NONE, '', ''
redis.call('HSET', jobs, id, pack_job(j))

local head = redis.call('GETRANGE', event_key, 0, HEAD - 1)
local copies = redis.call('HGET', replays, event) or ''
local _, n, until_ = 0, 0, 0
if head ~= '' then
	_, _, until_, n = struct.unpack(EVENT, head)
end
local ids = n > 0 and redis.call('GETRANGE', event_key, HEAD, HEAD + 16 * n - 1) or id
local all = ids .. copies
for i = 1, #all, 16 do
	local other = redis.call('HGET', jobs, string.sub(all, i, i + 15))
	if other and string.byte(other, 2) == 0 then
		return 1 -- it needs the payload
	end
end
redis.call('ZREM', events, event)
if until_ > now then
	redis.call('SET', event_key, struct.pack(EVENT, PRUNED, 0, until_, n) .. ids)
	redis.call('ZADD', spent, until_, event)
	return 1
end
redis.call('DEL', event_key)
redis.call('HDEL', replays, event)
for i = 1, #all, 16 do
	redis.call('HDEL', jobs, string.sub(all, i, i + 15))
end
return 1
