-- Replaces a session if its stamp is the expected one; returns the new stamp, or nothing.
-- KEYS: session, order, IDs of the owner.
-- ARGV: age, ahead (microseconds), most sessions to drop, the expected stamp ('' for a new session),
--       the serialized session, the mark of this change, most sessions,
--       the ID.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2] + ARGV[2]
local oldest = now - ARGV[1]
local function text(number)
  return string.format('%.0f', number)
end
local found = redis.call('HMGET', KEYS[1], 's', 'n')
-- This change was made before, and its reply was lost.
if found[2] == ARGV[6] then
  return found[1]
end
local stamp = found[1] or ''
if stamp ~= '' and tonumber(stamp) < oldest then
  stamp = ''
end
if stamp ~= ARGV[4] then
  return false
end
local old = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '(' .. text(oldest), 'LIMIT', 0, ARGV[3])
for _, key in ipairs(old) do
  redis.call('DEL', key)
  redis.call('ZREM', KEYS[2], key)
end
local last = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
if last and tonumber(last) >= now then
  now = tonumber(last) + 1
end
redis.call('HSET', KEYS[1], 's', text(now), 'v', ARGV[5], 'n', ARGV[6])
redis.call('ZADD', KEYS[2], text(now), KEYS[1])
-- Rounded up, plus a second for readers at this moment; the stamp decides what has expired.
local life = math.min(math.ceil(ARGV[1] / 1000) + 1000, 10 * 365 * 24 * 3600 * 1000)
redis.call('PEXPIRE', KEYS[1], text(life))
redis.call('PEXPIRE', KEYS[2], text(life))
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', '(' .. text(oldest))
redis.call('ZADD', KEYS[3], text(now), ARGV[8])
redis.call('ZREMRANGEBYRANK', KEYS[3], 0, -1 - ARGV[7])
redis.call('PEXPIRE', KEYS[3], text(life))
while redis.call('ZCARD', KEYS[2]) > tonumber(ARGV[7]) do
  redis.call('DEL', redis.call('ZPOPMIN', KEYS[2])[1])
end
return text(now)
