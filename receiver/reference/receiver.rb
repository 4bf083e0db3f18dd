# A receiver of webhooks with WEBrick. It remembers handled messages in memory; use a table of your database instead.
#
#     gem install webrick
#     WEBHOOK_SECRET=whsec_… PORT=9000 ruby receiver.rb

require 'openssl'
require 'webrick'

# `headers` maps lower-case names. In Rails: request.headers['webhook-id'], and request.raw_post is the body.
def verify(secret, headers, body)
  id = headers['webhook-id'].to_s
  timestamp = headers['webhook-timestamp'].to_s
  return false unless timestamp.match?(/\A\d+\z/) && (Time.now.to_i - timestamp.to_i).abs <= 300

  key = secret.delete_prefix('whsec_').unpack1('m')
  mac = OpenSSL::HMAC.digest('SHA256', key, "#{id}.#{timestamp}.".b + body.b)
  expected = "v1,#{[mac].pack('m0')}"
  headers['webhook-signature'].to_s.split(' ').any? { |entry| OpenSSL.secure_compare(entry, expected) }
end

# Your work. An error is answered with 500, and Sluice sends the message again.
def handle(id, _body)
  puts "handled #{id}"
end

# Maps the id of a message to whether its work is done. An id with false is being worked on.
messages = {}
mutex = Mutex.new
max_body_bytes = 2 * 1024 * 1024

receive = lambda do |request, response|
  headers = request.header.transform_values { |values| values.join(',') }
  # A chunked body has no length in front, so the bytes are counted as they come.
  body = ''.b
  request.body { |chunk| body << chunk if body.bytesize <= max_body_bytes }
  next response.status = 413 if body.bytesize > max_body_bytes
  next response.status = 401 unless verify(ENV.fetch('WEBHOOK_SECRET'), headers, body)

  id = headers['webhook-id']
  done = mutex.synchronize do
    known = messages[id]
    messages[id] = false if known.nil?
    known
  end
  next response.status = 200 if done

  if done == false
    response['Retry-After'] = '5'
    next response.status = 409
  end
  begin
    handle(id, body)
    mutex.synchronize { messages[id] = true }
    response.status = 200
  ensure
    mutex.synchronize { messages.delete(id) unless messages[id] }
  end
end

$stdout.sync = true
server = WEBrick::HTTPServer.new(
  BindAddress: '127.0.0.1', Port: Integer(ENV.fetch('PORT', '9000')), AccessLog: [], Logger: WEBrick::Log.new($stderr, 1)
)
server.mount_proc('/', &receive)
trap('INT') { server.shutdown }
trap('TERM') { server.shutdown }
server.start
