# frozen_string_literal: true

# compasses says what a ship has to steer from place to place, for which it asks an office how far the needle is off.
# After each response Puma keeps the thread on the connection for 0.2 s, in case the client has another request. It was
# made as a control: its 48 threads are enough for the office, and not for the clients' connections.
#
# Cured, it has a thread for each connection that its clients keep.

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

# Table says what to steer.
class Table
  PLACES = Array.new(60) { |n| { name: "Buoy #{n}", north: 53 + n * 37 % 90 / 60.0, east: 8 + n * 53 % 110 / 60.0 } }.freeze
  POINTS = %w[N NNE NE ENE E ESE SE SSE S SSW SW WSW W WNW NW NNW].freeze

  def initialize(office)
    @host, @port = office.split(':')
  end

  def call(_env)
    start = rand(PLACES.size)
    off = variation
    legs = courses(start, off)
    body = "#{JSON.generate(from: PLACES[start][:name], variation: off, legs: legs)}\n"
    [200, { 'content-type' => 'application/json', 'etag' => %("#{Digest::SHA1.hexdigest(body)}") }, [body]]
  rescue SystemCallError, IOError, Timeout::Error => e
    [502, { 'content-type' => 'text/plain' }, ["#{e.message}\n"]]
  end

  private

  # How far the needle is off; asked over a connection that the thread keeps.
  def variation
    connection = Thread.current[:office] ||= Net::HTTP.new(@host, @port).tap do |http|
      http.keep_alive_timeout = 120
      http.read_timeout = 10
      http.start
    end
    connection.get('/variation').body.size % 7 - 3
  end

  # The courses to all other places, the nearest first.
  def courses(start, off)
    from = PLACES[start]
    PLACES.reject { |to| to.equal?(from) }.map { |to| leg(from, to, off) }.sort_by { |l| [l[:miles], l[:to]] }.first(20)
  end

  def leg(from, to, off)
    north = 60 * (to[:north] - from[:north])
    east = 60 * (to[:east] - from[:east]) * Math.cos(from[:north] * Math::PI / 180)
    degrees = (Math.atan2(east, north) * 180 / Math::PI - off) % 360
    { to: to[:name], miles: Math.hypot(north, east).round(1), steer: degrees.round, point: POINTS[(degrees / 22.5).round % 16] }
  end
end

host, port = address.split(':')
port = TCPServer.open(host, 0) { |free| free.addr[1].to_s } if port == '0' # Puma does not say which it took
table = Table.new(ENV.fetch('PATIENT_SERVICE'))
configuration = Puma::Configuration.new do |c|
  c.app table
  c.bind "tcp://#{host}:#{port}?backlog=1024"
  c.workers Etc.nprocessors
  threads = cured ? 256 : 24
  c.threads threads, threads
  c.persistent_timeout 120
  c.environment 'production'
  c.raise_exception_on_sigterm false
end
launcher = Puma::Launcher.new(configuration, events: Puma::Events.new(StringIO.new, $stderr))
launcher.events.on_booted { $stdout.syswrite("ready #{host}:#{port}\n") }
launcher.run
