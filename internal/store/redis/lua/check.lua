-- Writes something, because a Redis that only answers is of no use.
return redis.call('HINCRBY', meta, 'checks', 1)
