# frozen_string_literal: true

# raffle sells numbered lots on a Puma. So that no number is given out twice, by whichever worker, a file
# with the last number is locked (flock), and the lot is registered with the notary, which takes 3 ms, before
# the lock is given back: one request at a time is in it, of all the workers.
#
# Cured, the file is locked only to count.

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
require 'tempfile'

address = '127.0.0.1:18800'
cured = false
OptionParser.new do |o|
  o.on('--address ADDRESS') { |a| address = a }
  o.on('--cured') { cured = true }
end.parse!

PRIZES = (1..150).map { |n| { id: n, name: "Prize no. #{n}", euros: 2 + n * 7919 % 120, donor: "Donor #{n % 13}" } }.freeze

# Numbers counts in a file, which all workers share.
class Numbers
  def initialize(path)
    @path = path
  end

  # The next number, and what the block makes of it while the others wait.
  def draw
    File.open(@path, 'r+') do |file|
      file.flock(File::LOCK_EX)
      number = file.read.to_i + 1
      made = yield number
      file.rewind
      file.write(number.to_s)
      [number, made]
    end
  end
end

# Sells a lot.
class Sale
  def initialize(numbers, notary, cured)
    @numbers = numbers
    @host, port = notary.split(':')
    @port = port.to_i
    @cured = cured
  end

  def call(_env)
    number, seal = @cured ? sell_at_once : @numbers.draw { |n| register(n) }
    body = JSON.generate(lot(number, seal))
    [200, { 'content-type' => 'application/json' }, [body]]
  rescue SystemCallError, IOError, Timeout::Error => e
    [502, { 'content-type' => 'text/plain' }, ["#{e.message}\n"]]
  end

  private

  def sell_at_once
    number, = @numbers.draw { nil }
    [number, register(number)]
  end

  # Has the notary write it down, over a connection that the thread keeps.
  def register(number)
    connection = Thread.current[:notary] ||= Net::HTTP.new(@host, @port).tap do |http|
      http.keep_alive_timeout = 120
      http.read_timeout = 10
      http.start
    end
    connection.get("/lots/#{number}").body.split.first
  end

  # The lot, with the prizes that it may win: those whose draw is near its own.
  def lot(number, seal)
    drawn = PRIZES.map { |p| [Digest::SHA256.hexdigest("#{number} #{p[:id]}")[0, 8].to_i(16), p] }.sort_by(&:first)
    chances = drawn.first(12).map do |ticket, prize|
      { prize: prize[:name], worth: format('%.2f', prize[:euros]), ticket: format('%08x', ticket) }
    end
    { number: number, seal: seal, chances: chances, donors: drawn.group_by { |_, p| p[:donor] }.transform_values(&:size) }
  end
end

counter = Tempfile.create('patient-raffle-')
counter.write('0')
counter.close
master = Process.pid
at_exit { File.unlink(counter.path) if Process.pid == master && File.exist?(counter.path) }

host, port = address.split(':')
port = TCPServer.open(host, 0) { |free| free.addr[1].to_s } if port == '0' # Puma does not say which it took
configuration = Puma::Configuration.new do |c|
  c.app Sale.new(Numbers.new(counter.path), ENV.fetch('PATIENT_SERVICE'), cured)
  c.bind "tcp://#{host}:#{port}?backlog=1024"
  c.workers Etc.nprocessors
  c.threads 32, 32
  c.persistent_timeout 120
  c.environment 'production'
  c.raise_exception_on_sigterm false
end
launcher = Puma::Launcher.new(configuration, events: Puma::Events.new(StringIO.new, $stderr))
launcher.events.on_booted { $stdout.syswrite("ready #{host}:#{port}\n") }
launcher.run
