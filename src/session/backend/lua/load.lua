-- Returns the stamp and the session, or nothing if it does not exist or has expired.
-- KEYS: session. ARGV: age, ahead (microseconds).
local time = redis.call('TIME')
local oldest = time[1] * 1000000 + time[2] + ARGV[2] - ARGV[1]
local found = redis.call('HMGET', KEYS[1], 's', 'v')
if not found[1] or tonumber(found[1]) < oldest then
  return false
end
return found
