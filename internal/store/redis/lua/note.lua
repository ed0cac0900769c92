-- ARGV: lanes that are configured now.
at_limit()
for i = 2, #ARGV do
	redis.call('HSET', noted, ARGV[i], now)
end
return 0
