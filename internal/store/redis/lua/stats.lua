-- The answer is the time, all counts, and when each lane was noted.
return { whole(now), redis.call('HGETALL', counts), redis.call('HGETALL', noted) }
