-- wrk's requests: POSTs of the wanted size, spread over the owners, some of which the upstream fails.
-- Arguments: file with an owner a line, bytes of a body, failing requests of each hundred, first number.
local heads, size, failing, number = {}, 0, 0, 0

function init(args)
  size, failing, number = tonumber(args[2]), tonumber(args[3]), tonumber(args[4])
  for owner in io.lines(args[1]) do
    heads[#heads + 1] = "POST /v1/responses HTTP/1.1\r\nHost: " .. wrk.host .. ":" .. wrk.port
      .. "\r\nContent-Type: application/json\r\nRollcall-Owner: " .. owner .. "\r\nContent-Length: " .. size .. "\r\n"
  end
  rest = '","input":"' .. string.rep("x", size - 48) .. '"}'
end

function request()
  number = number + 1
  local body = '{"model":"m","number":"' .. string.format("%012d", number) .. rest
  -- each owner's calls fail in the same share
  local fail = (number + math.floor(number / #heads)) % 100 < failing and "Bench-Task: fail\r\n\r\n" or "\r\n"
  return heads[number % #heads + 1] .. fail .. body
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format("bench %d %d %d %d\n", summary.requests, summary.duration,
    errors.connect + errors.read + errors.write + errors.timeout, errors.status))
end
