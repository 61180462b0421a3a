-- Drops expired sessions; returns how many it dropped and how many are left.
-- KEYS: order. ARGV: age, ahead (microseconds), most to drop.
local time = redis.call('TIME')
local oldest = time[1] * 1000000 + time[2] + ARGV[2] - ARGV[1]
local old = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(' .. string.format('%.0f', oldest), 'LIMIT', 0, ARGV[3])
for _, key in ipairs(old) do
  redis.call('DEL', key)
  redis.call('ZREM', KEYS[1], key)
end
return { #old, redis.call('ZCARD', KEYS[1]) }
