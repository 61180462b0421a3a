-- Returns the index of the next frame: the number behind the hyphen in the ID of the newest entry.
local function next_index(frames)
  local newest = redis.call('XREVRANGE', frames, '+', '-', 'COUNT', '1')[1]
  return newest and tonumber(string.match(newest[1], '%d+$')) or 0
end

