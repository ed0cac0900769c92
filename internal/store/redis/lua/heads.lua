-- The heads of several lists, newest first, of one moment. KEYS: the lists. ARGV: below, most of each.
local heads = {}
for l = 1, #KEYS - DECLARED do
	heads[l] = redis.call('ZREVRANGEBYSCORE', KEYS[DECLARED + l], '(' .. ARGV[2], '-inf', 'WITHSCORES', 'LIMIT', 0, ARGV[3])
end
return heads
