# frozen_string_literal: true

# puma is a booking service on Puma, with a worker for each processor and the five threads in each that Puma and
# Rails begin with. Each request waits 20 ms for the berths' service, so ten are inside on two processors, and the
# others stand in the queue.
#
# Cured, a worker has 64 threads.

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
require 'time'

address = '127.0.0.1:18800'
threads = 5
OptionParser.new do |o|
  o.on('--address ADDRESS') { |a| address = a }
  o.on('--cured') { threads = 64 }
end.parse!

BERTHS = (1..240).map { |n| { id: n, pier: ('A'..'F').to_a[n % 6], length: 6 + n % 11, cents: 900 + 35 * (n % 40) } }.freeze

# Books a berth, and shows what else is free.
class Booking
  def initialize(service)
    @host, port = service.split(':')
    @port = port.to_i
  end

  def call(env)
    length = (env['QUERY_STRING'][/length=(\d+)/, 1] || 9).to_i
    body = JSON.generate(offer(length, free))
    headers = { 'content-type' => 'application/json', 'etag' => %("#{Digest::SHA1.hexdigest(body)}") }
    [200, headers, [body]]
  rescue SystemCallError, IOError, Timeout::Error => e
    [502, { 'content-type' => 'text/plain' }, ["#{e.message}\n"]]
  end

  private

  # How many berths are free; asked over a connection that the thread keeps.
  def free
    connection = Thread.current[:berths] ||= Net::HTTP.new(@host, @port).tap do |http|
      http.keep_alive_timeout = 120
      http.read_timeout = 10
      http.start
    end
    connection.get('/free').body.to_i
  end

  def offer(length, free)
    fitting = BERTHS.select { |b| b[:length] >= length }
    piers = fitting.group_by { |b| b[:pier] }.transform_values do |berths|
      berths.sort_by { |b| [b[:cents], b[:id]] }.first(3).map do |b|
        { berth: format('%<pier>s-%<id>03d', b), price: format('%.2f', b[:cents] / 100.0) }
      end
    end
    { asked: length, free: free, until: (Time.at(0).utc + 86_400 * length).iso8601, piers: piers.sort.to_h }
  end
end

host, port = address.split(':')
port = TCPServer.open(host, 0) { |free| free.addr[1].to_s } if port == '0' # Puma does not say which it took
configuration = Puma::Configuration.new do |c|
  c.app Booking.new(ENV.fetch('PATIENT_SERVICE'))
  c.bind "tcp://#{host}:#{port}?backlog=1024"
  c.workers Etc.nprocessors
  c.threads threads, threads
  c.persistent_timeout 120
  c.environment 'production'
  c.raise_exception_on_sigterm false
end
launcher = Puma::Launcher.new(configuration, events: Puma::Events.new(StringIO.new, $stderr))
launcher.events.on_booted { $stdout.syswrite("ready #{host}:#{port}\n") }
launcher.run
