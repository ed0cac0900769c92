-- Counts unfinished jobs anew from their lists, in case Redis has lost some of either: a wrong count would hold up a queue
-- for ever. KEYS: wait of each lane. ARGV: the lanes.
at_limit()
local pending, active, queues = {}, {}, {}
for l = 2, #ARGV do
	pending[ARGV[l]], active[ARGV[l]] = redis.call('ZCARD', KEYS[DECLARED + l - 1]), 0
end
local ids = redis.call('ZRANGE', running, 0, -1)
for i = 1, #ids do
	local j = load_job(ids[i])
	if j and active[j.lane] then
		active[j.lane] = active[j.lane] + 1
	end
end
for lane, n in pairs(pending) do
	redis.call('HSET', counts, lane .. '\0' .. PENDING, n)
	redis.call('HSET', counts, lane .. '\0' .. RUNNING, active[lane])
	local queue = queue_of(lane)
	queues[queue] = (queues[queue] or 0) + n + active[lane]
end
-- A lane that is new since the caller looked adds to its queue's count and not to this sum: the next call sets it right.
local fields = redis.call('HKEYS', counts)
for i = 1, #fields do
	local lane = string.match(fields[i], '^(.*)%z[0-6]$')
	if lane and not pending[lane] then
		queues[queue_of(lane)] = nil
	end
end
for queue, n in pairs(queues) do
	redis.call('HSET', counts, queue, n)
end
return 0
