-- Job and ledger of one moment. ARGV: job. A transaction would do, but Redis refuses those at its memory limit.
return { redis.call('HGET', jobs, ARGV[2]), redis.call('HGET', ledger, ARGV[2]) }
