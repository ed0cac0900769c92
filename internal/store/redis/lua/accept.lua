-- KEYS: the event, its dedupe keys, then two of each job: due and wait, or for an observed job final and ended.
-- ARGV: id, instance, two digits (no room for more, caller waits for replicas), number of keys, number of jobs, ids of the
-- jobs, facts, payload, info, channel, then the life of each key, then of each job lane, queue, observed, limit.
local id, instance, flags, nk, nj, ids = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local full, touches = string.sub(flags, 1, 1), string.sub(flags, 2, 2)
local event_key, first_key, first_job = KEYS[DECLARED + 1], DECLARED + 1, DECLARED + 1 + nk

-- touch makes a write of an answer without one, when the caller waits for replicas: they are asked for this connection's
-- newest write, and the first accept may have come over another.
local function touch(answer)
	if touches == '1' then
		at_limit()
		redis.call('HSET', meta, 'touched', whole(now))
	end
	return answer
end

-- own gives the answer that this very event got before: clients send again what they got no reply to.
local function own()
	local head = redis.call('GETRANGE', event_key, 0, HEAD - 1)
	if head == '' then
		return nil
	end
	local _, _, _, n = struct.unpack(EVENT, head)
	return { 'stored', id, redis.call('GETRANGE', event_key, HEAD, HEAD + 16 * n - 1) }
end

for i = 1, nk do
	local holder = redis.call('GET', KEYS[first_key + i])
	if holder then
		local ends, event = struct.unpack('>I8c16', holder)
		local jobs_of_it = string.sub(holder, 25)
		-- A key may outlive its event where Redis evicts: what was lost is no reason to refuse its repetition.
		if ends > now and redis.call('HEXISTS', jobs, string.sub(jobs_of_it, 1, 16)) == 1 then
			local first = event ~= id and own() or nil
			return touch(first or { event == id and 'stored' or 'duplicate', event, jobs_of_it })
		end
	end
end
local function job_arg(i, n)
	return ARGV[11 + nk + 4 * (i - 1) + n]
end

local unfinished, later = {}, {}
for i = 1, nj do
	later[job_arg(i, 1)] = (later[job_arg(i, 1)] or 0) + 1
	local queue, observed, limit = job_arg(i, 2), job_arg(i, 3), tonumber(job_arg(i, 4))
	if observed == '0' then
		unfinished[queue] = unfinished[queue] or tonumber(redis.call('HGET', counts, queue) or 0)
		if limit > 0 and unfinished[queue] >= limit then
			return own() or { 'backlog', queue, unfinished[queue] }
		end
		unfinished[queue] = unfinished[queue] + 1
	end
end
if full == '1' then
	return own() or { 'full' }
end

-- Numbers are written once: Redis formats each that it is given anew, at a twentieth of an accept.
local accepted = next_stamp()
local accepted_text, now_text = whole(accepted), whole(now)
local longest = 0
for i = 1, nk do
	longest = math.max(longest, tonumber(ARGV[11 + i]))
end
local stored_event = struct.pack(EVENT, LIVE, accepted, now + longest, nj) .. ids .. ARGV[8] .. ARGV[9]
if not redis.call('SET', event_key, stored_event, 'NX') then
	return touch(own())
end
redis.call('HSET', meta, 'clock', nj == 1 and accepted_text or whole(accepted + nj - 1))
redis.call('ZADD', events, accepted_text, id)
for i = 1, nk do
	local life = tonumber(ARGV[11 + i])
	redis.call('SET', KEYS[first_key + i], struct.pack('>I8c16', now + life, id) .. ids, 'PX', whole(math.max(1, math.ceil(life / 1000))))
end

local ring = false
for i = 1, nj do
	local job, lane, queue = string.sub(ids, 16 * i - 15, 16 * i), job_arg(i, 1), job_arg(i, 2)
	local a, b = KEYS[first_job + 2 * i - 1], KEYS[first_job + 2 * i]
	local created = i == 1 and accepted_text or whole(accepted + i - 1)
	local state, ended = PENDING, 0
	if job_arg(i, 3) == '0' then
		-- Jobs of one event in one lane are due in their order: the earlier ones a little earlier.
		later[lane] = later[lane] - 1
		ring = ring or nothing_due(a)
		redis.call('ZADD', a, later[lane] == 0 and now_text or whole(now - later[lane]), job)
		redis.call('ZADD', b, created, job)
		redis.call('HINCRBY', counts, queue, 1)
	else
		state, ended = OBSERVED, now
		redis.call('ZADD', a, created, job)
		redis.call('ZADD', b, now_text, job)
	end
	-- As pack_job does, without a table.
	redis.call('HSET', jobs, job, struct.pack(JOB, state, 0, 0, 0, 0, accepted + i - 1, now, ended, 0, id, NONE, NONE,
		#lane, lane, #ARGV[10], ARGV[10], 0, '', 0, ''))
	count(lane, state, 1)
end
if ring then
	redis.call('PUBLISH', ARGV[11], instance)
end
return { 'stored', id, ids }
