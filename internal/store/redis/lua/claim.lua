-- KEYS: due and wait of each lane. ARGV: token, lease, then lane and most of each. The answer is how long until something
-- is due, whether a lane had more, the jobs, and the ids of those that cannot be read.
local token, lease = ARGV[2], tonumber(ARGV[3])
local wait, more, taken, damaged, ids = 0, 0, {}, {}, {}

local function give(id, raw)
	taken[#taken + 1] = id
	taken[#taken + 1] = raw
end

local before = redis.call('HGET', claims, token)
if before then -- sent again: the caller begins only now, so do the leases
	if redis.call('ZSCORE', claimed, token) then
		redis.call('ZADD', claimed, now + lease, token)
	end
	for i = 1, #before, 16 do
		local id = string.sub(before, i, i + 15)
		local j, raw = load_job(id)
		if j and j.state == RUNNING and j.token == token then
			redis.call('ZADD', leases, now + lease, id)
			give(id, raw)
		end
	end
	return { wait, more, taken, damaged }
end

at_limit()

for l = 1, (#ARGV - 3) / 2 do
	local due, waiting = KEYS[DECLARED + 2 * l - 1], KEYS[DECLARED + 2 * l]
	local lane, most, n = ARGV[2 + 2 * l], tonumber(ARGV[3 + 2 * l]), 0
	local found = redis.call('ZRANGEBYSCORE', due, '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, whole(most + 1))
	for i = 1, #found, 2 do
		local id, at = found[i], tonumber(found[i + 1])
		if at <= now and n < most then
			local j, raw = load_job(id)
			if j then
				j.state, j.attempts, j.token, j.claimed = RUNNING, j.attempts + 1, token, now
				raw = pack_job(j)
				redis.call('ZADD', leases, now + lease, id)
				redis.call('ZADD', running, j.created, id)
				redis.call('HSET', jobs, id, raw)
				give(id, raw)
				ids[#ids + 1] = id
				n = n + 1
			else
				lose(lane, PENDING)
				if raw then
					damaged[#damaged + 1] = id
				end
			end
			redis.call('ZREM', due, id)
			redis.call('ZREM', waiting, id)
		else
			if at <= now then
				more = 1
			end
			local left = math.max(1, at - now)
			if wait == 0 or left < wait then
				wait = left
			end
		end
	end
	if n > 0 then
		count(lane, PENDING, -n)
		count(lane, RUNNING, n)
	end
end

if #ids > 0 then
	local old = redis.call('ZRANGEBYSCORE', claimed, '-inf', now, 'LIMIT', 0, 20)
	for i = 1, #old do
		redis.call('HDEL', claims, old[i])
		redis.call('ZREM', claimed, old[i])
	end
	redis.call('HSET', claims, token, table.concat(ids))
	redis.call('ZADD', claimed, now + lease, token)
end
return { wait, more, taken, damaged }
