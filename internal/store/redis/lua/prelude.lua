-- Every script begins with this. The lines above it, made by scripts.go, name the declared keys and set DECLARED to their
-- number; further keys follow as KEYS[DECLARED + n]. ARGV[1] is always the offset that tests move the clock by.

-- An event: kind, accepted, until when its keys live, number of jobs; then their ids, facts, payload.
local EVENT, HEAD, LIVE, PRUNED = '>BI8I8I2', 19, 1, 2
-- The fixed part of a job, then lane, info, reason and error, each behind its length. Times are microseconds since 1970,
-- which a Lua number holds exactly.
local JOB = '>BBI4I4I4I8I8I8I8c16c16c16I4c0I4c0I4c0I4c0'
local PENDING, RUNNING, DEAD, REPLAYED, OBSERVED = 0, 1, 3, 5, 6
local NONE = string.rep('\0', 16)

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2] + tonumber(ARGV[1])

-- The layout is looked at in every script, not once at the start: during a rolling deploy a newer program may change it
-- under us, and FLUSHALL takes it away.
local stored = redis.call('HMGET', meta, 'layout', 'clock')
if stored[1] ~= LAYOUT then
	if stored[1] then
		return redis.error_reply('LAYOUT ' .. stored[1])
	end
	redis.call('HSET', meta, 'layout', LAYOUT)
end

-- whole prints a number for arguments that must be integers: Lua's own ".." keeps 14 digits of it, and newer servers write
-- round numbers like 1e+10.
local function whole(n)
	return string.format('%.0f', n)
end

-- next_stamp is the next time that no other event or job has. Such times grow even when the clock is set back, so that lists
-- have one order and cursors one meaning. Whoever takes it, or several from it on, stores the last one as the clock.
local function next_stamp()
	return math.max(now, (tonumber(stored[2]) or 0) + 1)
end

local function unpack_job(raw)
	local j = {}
	j.state, j.pruned, j.attempts, j.failures, j.lost, j.created, j.due, j.ended, j.claimed, j.event, j.token, j.replay_of,
		j.lane, j.info, j.reason, j.error = struct.unpack(JOB, raw)
	return j
end

local function pack_job(j)
	return struct.pack(JOB, j.state, j.pruned, j.attempts, j.failures, j.lost, j.created, j.due, j.ended, j.claimed, j.event,
		j.token, j.replay_of, #j.lane, j.lane, #j.info, j.info, #j.reason, j.reason, #j.error, j.error)
end

-- load_job gives nothing for a job that is lost, and only its record for one that cannot be read: one bad record must not
-- stop what is done for all.
local function load_job(id)
	local raw = redis.call('HGET', jobs, id)
	local ok, j = pcall(unpack_job, raw)
	return raw and ok and j or nil, raw
end

-- at_limit is called before the first write of what must go on at the memory limit: Redis refuses a script's commands that
-- need memory only until it has written something. Scripts add before they remove: where one is cut short, by a key of a
-- wrong type or a missing right, a job is rather in two lists than in none.
local function at_limit()
	redis.call('HDEL', meta, '')
end

local function count(lane, state, n)
	redis.call('HINCRBY', counts, lane .. '\0' .. state, n)
end

local function queue_of(lane)
	return string.sub(lane, 1, string.find(lane, '\0', 1, true) - 1)
end

-- lose takes a job that is lost out of the counts, so that it does not fill the backlog for ever.
local function lose(lane, state)
	count(lane, state, -1)
	redis.call('HINCRBY', counts, queue_of(lane), -1)
end

-- nothing_due tells whether workers may be asleep: while a due job waits in the lane, they have been rung for already.
local function nothing_due(due)
	local head = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')
	return not head[2] or tonumber(head[2]) > now
end
