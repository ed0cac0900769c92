-- Finds what retention allows to go, without changing anything. KEYS: lists of ended jobs. ARGV: most, then how long each
-- list keeps. The answer is jobs, each with the number of its list, and then events that only keys needed.
local most, found = tonumber(ARGV[2]), {}
for l = 1, #ARGV - 2 do
	if most > 0 then
		local ids = redis.call('ZRANGEBYSCORE', KEYS[DECLARED + l], '-inf', now - tonumber(ARGV[2 + l]), 'LIMIT', 0, most)
		most = most - #ids
		for i = 1, #ids do
			found[#found + 1] = ids[i]
			found[#found + 1] = redis.call('HGET', jobs, ids[i])
			found[#found + 1] = l - 1
		end
	end
end
return { found, redis.call('ZRANGEBYSCORE', spent, '-inf', now, 'LIMIT', 0, ARGV[2]) }
