# frozen_string_literal: true

# regatta shows the results of a regatta on Puma, with a worker for each processor and five threads in each. Boats are
# timed by handicap, ranked race by race, and their worst races are struck out. After each response Puma keeps the
# thread on the connection for 0.2 s, in case the client has another request. Its clients have more connections than
# there are threads, and use each of them now and then, so that the threads wait and the processors are idle.
#
# Cured, Puma closes connections, as it does where requests are not queued.

require 'digest'
require 'erb'
require 'etc'
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

PAGE = ERB.new(<<~HTML, trim_mode: '-')
  <!doctype html><title>Class <%= ERB::Util.h(of) %></title><table>
  <%- table.each_with_index do |(boat, points), place| -%>
  <tr><td><%= place + 1 %><td><%= ERB::Util.h(boat[:name]) %><td><%= format('%.1f', points) %>
  <%- end -%>
  </table>
HTML

# A regatta of some races.
class Regatta
  CLASSES = ('A'..'H').to_a.freeze
  STRUCK = 2

  def initialize
    random = Random.new(1)
    @boats = CLASSES.to_h do |name|
      [name, Array.new(40) { |n| { name: "Gull & Tern #{n}", handicap: 90 + random.rand(40), seconds: Array.new(12) { 4000 + random.rand(900) } } }]
    end
  end

  def call(env)
    of = env['QUERY_STRING'][/class=([A-H])/, 1] || CLASSES.sample
    body = page(of, results(@boats.fetch(of)))
    [200, { 'content-type' => 'text/html; charset=utf-8', 'etag' => %("#{Digest::SHA1.hexdigest(body)}") }, [body]]
  end

  private

  # The boats with their points, the best first.
  def results(boats)
    points = Hash.new { |h, boat| h[boat] = [] }
    boats.first[:seconds].each_index do |race|
      boats.sort_by { |b| corrected(b, race) }.each_with_index { |b, place| points[b[:name]] << (place.zero? ? 0.7 : place + 1) }
    end
    sums = boats.map { |b| [b, points[b[:name]].sort[0...-STRUCK].sum] }
    sums.sort_by { |b, sum| [sum, b[:name]] }
  end

  def corrected(boat, race)
    (boat[:seconds][race] * 100.0 / boat[:handicap]).round(1)
  end

  def page(of, table)
    PAGE.result_with_hash(of: of, table: table)
  end
end

host, port = address.split(':')
port = TCPServer.open(host, 0) { |free| free.addr[1].to_s } if port == '0' # Puma does not say which it took
configuration = Puma::Configuration.new do |c|
  c.app Regatta.new
  c.bind "tcp://#{host}:#{port}?backlog=1024"
  c.workers Etc.nprocessors
  c.threads 5, 5
  c.persistent_timeout 120
  c.queue_requests !cured
  c.environment 'production'
  c.raise_exception_on_sigterm false
end
launcher = Puma::Launcher.new(configuration, events: Puma::Events.new(StringIO.new, $stderr))
launcher.events.on_booted { $stdout.syswrite("ready #{host}:#{port}\n") }
launcher.run
