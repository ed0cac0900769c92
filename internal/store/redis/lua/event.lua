-- An event with its jobs, copies included. KEYS: the event. ARGV: event.
local event_key = KEYS[DECLARED + 1]
local head = redis.call('GETRANGE', event_key, 0, HEAD - 1)
if head == '' then
	return {}
end
local _, _, _, n = struct.unpack(EVENT, head)
local ids = redis.call('GETRANGE', event_key, HEAD, HEAD + 16 * n - 1) .. (redis.call('HGET', replays, ARGV[2]) or '')
local found = {}
for i = 1, #ids, 16 do
	local id = string.sub(ids, i, i + 15)
	local raw = redis.call('HGET', jobs, id)
	if raw then
		found[#found + 1] = id
		found[#found + 1] = raw
	end
end
return { redis.call('GET', event_key), found }
