-- Removes a session; returns 1 if it existed and had not expired.
-- KEYS: session, order, IDs of the owner. ARGV: age, ahead (microseconds), the ID.
local time = redis.call('TIME')
local oldest = time[1] * 1000000 + time[2] + ARGV[2] - ARGV[1]
local stamp = redis.call('HGET', KEYS[1], 's')
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], KEYS[1])
redis.call('ZREM', KEYS[3], ARGV[3])
if stamp and tonumber(stamp) >= oldest then
  return 1
end
return 0
