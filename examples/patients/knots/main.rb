# frozen_string_literal: true

# knots teaches knots on Puma, with a worker for each processor. Its container may use six tenths of a processor, which
# was enough when it was started: it stands still for the rest of each tenth of a second.
#
# Cured, its container may use two processors.

require 'digest'
require 'erb'
require 'etc'
require 'json'
require 'optparse'
require 'puma'
require 'puma/configuration'
require 'puma/launcher'
require 'socket'
require 'stringio'

address = '127.0.0.1:18800'
OptionParser.new do |o|
  o.on('--address ADDRESS') { |a| address = a }
  o.on('--cured') { nil } # it is the container that is cured
end.parse!

PAGE = ERB.new(<<~HTML, trim_mode: '-')
  <!doctype html><title><%= ERB::Util.h(knot[:name]) %></title><ol>
  <%- knot[:moves].each do |move| -%>
  <li><%= ERB::Util.h(move) %>
  <%- end -%>
  </ol><ul>
  <%- like.each do |other, shared| -%>
  <li><%= ERB::Util.h(other[:name]) %>: <%= shared %>
  <%- end -%>
  </ul>
HTML

# A book of knots.
class Book
  PAGE.def_method(self, 'page(knot, like)')

  MOVES = ['round & under', 'over', 'through the bight', 'half hitch', 'pull taut', 'turn', 'cross'].freeze

  def initialize
    random = Random.new(7)
    @knots = Array.new(240) { |n| { name: "Hitch & bend no. #{n}", moves: Array.new(4 + n % 6) { MOVES.sample(random: random) } } }
  end

  def call(_env)
    knot = @knots.sample
    body = page(knot, like(knot))
    [200, { 'content-type' => 'text/html; charset=utf-8', 'etag' => %("#{Digest::SHA1.hexdigest(body)}") }, [body]]
  end

  private

  # The knots that have most moves in common with one.
  def like(knot)
    @knots.reject { |k| k.equal?(knot) }
          .map { |k| [k, (k[:moves] & knot[:moves]).size - (k[:moves].size - knot[:moves].size).abs] }
          .sort_by { |k, shared| [-shared, k[:name]] }.first(12)
  end
end

host, port = address.split(':')
port = TCPServer.open(host, 0) { |free| free.addr[1].to_s } if port == '0' # Puma does not say which it took
configuration = Puma::Configuration.new do |c|
  c.app Book.new
  c.bind "tcp://#{host}:#{port}?backlog=1024"
  c.workers Etc.nprocessors
  c.threads 5, 5
  c.persistent_timeout 120
  c.queue_requests false
  c.environment 'production'
  c.raise_exception_on_sigterm false
end
launcher = Puma::Launcher.new(configuration, events: Puma::Events.new(StringIO.new, $stderr))
launcher.events.on_booted { $stdout.syswrite("ready #{host}:#{port}\n") }
launcher.run
