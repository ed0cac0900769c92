-- Removes what was kept of a pruned event for its keys. KEYS: the event. ARGV: event.
local event, event_key = ARGV[2], KEYS[DECLARED + 1]
at_limit()
local kept = redis.call('GET', event_key)
local kind, _, until_ = PRUNED, 0, 0
if kept then
	kind, _, until_ = struct.unpack(EVENT, kept)
end
if kind == PRUNED and until_ > now then
	return 0
end
redis.call('ZREM', spent, event)
if not kept or kind ~= PRUNED then
	return 0
end
local all = string.sub(kept, HEAD + 1) .. (redis.call('HGET', replays, event) or '')
for i = 1, #all, 16 do
	redis.call('HDEL', jobs, string.sub(all, i, i + 15))
end
redis.call('DEL', event_key)
redis.call('HDEL', replays, event)
return 1
