# frozen_string_literal: true

# hawsers says which hawser holds a ship, for which it asks the chandler. A middleware that came with the service when it
# had no threads lets one request at a time into the application of each Puma worker, and the chandler is waited for in it.
#
# Cured, the middleware is not in the stack.

require 'digest'
require 'etc'
require 'json'
require 'net/http'
require 'optparse'
require 'puma'
require 'puma/configuration'
require 'puma/launcher'
require 'socket'
require 'stringio'

address = '127.0.0.1:18800'
cured = false
OptionParser.new do |o|
  o.on('--address ADDRESS') { |a| address = a }
  o.on('--cured') { cured = true }
end.parse!

# Guard is what Rack::Lock is: a mutex around the application.
class Guard
  def initialize(app)
    @app = app
    @mutex = Mutex.new
  end

  def call(env)
    @mutex.synchronize { @app.call(env) }
  end
end

# Chandlery sells hawsers.
class Chandlery
  HAWSERS = Array.new(400) do |n|
    { id: "H#{n}", metres: 40 + n * 7 % 180, tonnes: 3 + n * 11 % 60, stuff: %w[hemp nylon steel][n % 3], cents: 900 + n * 37 % 5000 }
  end.freeze

  def initialize(chandler)
    @host, @port = chandler.split(':')
  end

  def call(_env)
    tonnes = rand(5..40)
    body = "#{JSON.generate(stock: stock, tonnes: tonnes, hawsers: fitting(tonnes))}\n"
    [200, { 'content-type' => 'application/json', 'etag' => %("#{Digest::SHA1.hexdigest(body)}") }, [body]]
  rescue SystemCallError, IOError, Timeout::Error => e
    [502, { 'content-type' => 'text/plain' }, ["#{e.message}\n"]]
  end

  private

  # How many are in stock; asked over a connection that the thread keeps.
  def stock
    connection = Thread.current[:chandler] ||= Net::HTTP.new(@host, @port).tap do |http|
      http.keep_alive_timeout = 120
      http.read_timeout = 10
      http.start
    end
    connection.get('/stock').body.to_i
  end

  # Those that hold so many tonnes, the cheapest of each stuff first.
  def fitting(tonnes)
    HAWSERS.select { |h| h[:tonnes] >= tonnes }.group_by { |h| h[:stuff] }
           .transform_values { |all| all.sort_by { |h| [h[:cents], h[:id]] }.first(4) }
  end
end

host, port = address.split(':')
port = TCPServer.open(host, 0) { |free| free.addr[1].to_s } if port == '0' # Puma does not say which it took
chandlery = Chandlery.new(ENV.fetch('PATIENT_SERVICE'))
configuration = Puma::Configuration.new do |c|
  c.app cured ? chandlery : Guard.new(chandlery)
  c.bind "tcp://#{host}:#{port}?backlog=1024"
  c.workers Etc.nprocessors
  c.threads 24, 24
  c.persistent_timeout 120
  c.environment 'production'
  c.raise_exception_on_sigterm false
end
launcher = Puma::Launcher.new(configuration, events: Puma::Events.new(StringIO.new, $stderr))
launcher.events.on_booted { $stdout.syswrite("ready #{host}:#{port}\n") }
launcher.run
