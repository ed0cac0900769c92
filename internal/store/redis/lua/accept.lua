-- Accepts the events that came together, each by itself: first all that decides, then what can be written for all at once.
-- KEYS of each event: the event, its dedupe keys, then two of each job: due and wait, or for an observed job final and
-- ended. ARGV: instance, two digits (no room for more, callers wait for replicas), channel, number of events; then of each
-- event id, number of keys, number of jobs, ids of the jobs, facts, payload, info, the life of each key, and of each job
-- lane, queue, observed, limit. The answer of each event is what happened to it, and ids or figures.
local full, touches = string.sub(ARGV[3], 1, 1), string.sub(ARGV[3], 2, 2)
-- Numbers are written once: Redis formats each that it is given anew.
local now_text = whole(now)
local clock = next_stamp() - 1
-- adds are the members to add to sorted sets by key, fields the jobs to set, more what to add to counts.
local adds, fields, more, unfinished, fresh = {}, {}, {}, {}, {}
local ring, touched = false, false

local function exists(job)
	return fresh[job] or redis.call('HEXISTS', jobs, job) == 1
end

-- own gives the answer that this very event got before: clients send again what they got no reply to. An event without its
-- jobs is what is left of a call that was cut short, and no answer.
local function own(event_key, id)
	local head = redis.call('GETRANGE', event_key, 0, HEAD - 1)
	if head == '' then
		return nil
	end
	local _, _, _, n = struct.unpack(EVENT, head)
	local ids = redis.call('GETRANGE', event_key, HEAD, HEAD + 16 * n - 1)
	if exists(string.sub(ids, 1, 16)) then
		-- Whoever waits for replicas asks for this connection's newest write, and the first accept may have come over another.
		touched = true
		return { 'stored', id, ids }
	end
end

local function add(key, score, member)
	local list = adds[key]
	if not list then
		list = {}
		adds[key] = list
	end
	list[#list + 1] = score
	list[#list + 1] = member
end

-- write gives a command its members in portions that Lua can pass on.
local function write(command, key, list)
	for i = 1, #list, 1000 do
		redis.call(command, key, unpack(list, i, math.min(i + 999, #list)))
	end
end

-- accept takes one event; due is when its jobs are, so that those of one group are due in its order.
local function accept(k, a, due_at)
	local event_key, id, nk, nj, ids = KEYS[k + 1], ARGV[a + 1], tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3]), ARGV[a + 4]
	local info, lives, of_jobs = ARGV[a + 7], a + 7, a + 7 + nk
	for i = 1, nk do
		local holder = redis.call('GET', KEYS[k + 1 + i])
		if holder then
			local ends, event = struct.unpack('>I8c16', holder)
			-- A key may outlive its event where Redis evicts: what was lost is no reason to refuse its repetition.
			if ends > now and exists(string.sub(holder, 25, 40)) then
				touched = true
				local first = event ~= id and own(event_key, id) or nil
				return first or { event == id and 'stored' or 'duplicate', event, string.sub(holder, 25) }
			end
		end
	end

	local taken = {}
	for j = of_jobs + 1, of_jobs + 4 * nj, 4 do
		local queue, limit = ARGV[j + 1], tonumber(ARGV[j + 3])
		if ARGV[j + 2] == '0' then
			unfinished[queue] = unfinished[queue] or tonumber(redis.call('HGET', counts, queue) or 0)
			local n = unfinished[queue] + (taken[queue] or 0)
			if limit > 0 and n >= limit then
				return own(event_key, id) or { 'backlog', queue, n }
			end
			taken[queue] = (taken[queue] or 0) + 1
		end
	end
	if full == '1' then
		return own(event_key, id) or { 'full' }
	end

	local longest = 0
	for i = 1, nk do
		longest = math.max(longest, tonumber(ARGV[lives + i]))
	end
	local accepted = clock + 1
	local text, due_text = whole(accepted), whole(due_at)
	local record = struct.pack(EVENT, LIVE, accepted, now + longest, nj) .. ids .. ARGV[a + 5] .. ARGV[a + 6]
	if not redis.call('SET', event_key, record, 'NX') then
		local first = own(event_key, id)
		if first then
			return first
		end
		redis.call('SET', event_key, record)
	end
	clock = clock + nj
	add(events, text, id)
	for i = 1, nk do
		local life = tonumber(ARGV[lives + i])
		redis.call('SET', KEYS[k + 1 + i], struct.pack('>I8c16', now + life, id) .. ids, 'PX', whole(math.max(1, math.ceil(life / 1000))))
	end
	for queue, n in pairs(taken) do
		unfinished[queue] = unfinished[queue] + n
		more[queue] = (more[queue] or 0) + n
	end

	local later = {}
	if nj > 1 then
		for j = of_jobs + 1, of_jobs + 4 * nj, 4 do
			later[ARGV[j]] = (later[ARGV[j]] or 0) + 1
		end
	end
	for i = 1, nj do
		local j, job = of_jobs + 4 * i - 3, string.sub(ids, 16 * i - 15, 16 * i)
		local first, second, lane = KEYS[k + 1 + nk + 2 * i - 1], KEYS[k + 1 + nk + 2 * i], ARGV[j]
		local created = i == 1 and text or whole(accepted + i - 1)
		local state, ended, due = PENDING, 0, due_text
		if ARGV[j + 2] == '0' then
			if nj > 1 then
				-- Jobs of one event in one lane are due in their order: the earlier ones a little earlier.
				later[lane] = later[lane] - 1
				due = whole(due_at - later[lane])
			end
			ring = ring or not adds[first] and nothing_due(first)
			add(first, due, job)
			add(second, created, job)
		else
			state, ended = OBSERVED, now
			add(first, created, job)
			add(second, now_text, job)
		end
		-- As pack_job does, without a table.
		fields[#fields + 1] = job
		fields[#fields + 1] = struct.pack(JOB, state, 0, 0, 0, 0, accepted + i - 1, due_at, ended, 0, id, NONE, NONE,
			#lane, lane, #info, info, 0, '', 0, '')
		fresh[job] = true
		local counted = lane .. '\0' .. state
		more[counted] = (more[counted] or 0) + 1
	end
	return { 'stored', id, ids }
end

local answers, k, a = {}, DECLARED, 5
local group = tonumber(ARGV[5])
for n = 1, group do
	answers[n] = accept(k, a, now - group + n)
	local nk, nj = tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
	k, a = k + 1 + nk + 2 * nj, a + 7 + nk + 4 * nj
end

if #fields > 0 then
	redis.call('HSET', meta, 'clock', whole(clock))
	for key, list in pairs(adds) do
		write('ZADD', key, list)
	end
	write('HSET', jobs, fields)
	for field, n in pairs(more) do
		redis.call('HINCRBY', counts, field, n)
	end
elseif touched and touches == '1' then
	at_limit()
	redis.call('HSET', meta, 'touched', now_text)
end
if ring then
	redis.call('PUBLISH', ARGV[4], ARGV[2])
end
return answers
