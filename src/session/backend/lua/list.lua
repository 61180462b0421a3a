-- Returns the IDs of an owner's sessions, the one changed last first.
-- KEYS: IDs of the owner. ARGV: age, ahead (microseconds), most IDs.
local time = redis.call('TIME')
local oldest = time[1] * 1000000 + time[2] + ARGV[2] - ARGV[1]
return redis.call('ZREVRANGEBYSCORE', KEYS[1], '+inf', string.format('%.0f', oldest), 'LIMIT', 0, ARGV[3])
