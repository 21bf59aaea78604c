// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/units"
	"weir/kernel/congestion"
	"weir/kernel/netns"
)

const limitLoadPart = "limit-load"

// limitLoad is one end of BenchmarkLimitAccuracy's load.
type limitLoad struct {
	Receive    bool
	Namespace  string
	Network    string // "tcp", "udp" or "quic", and the family, 4 or 6
	Address    string // destination, or address of the receiver
	Flows      int
	Congestion string        // TCP; empty is the host's default
	Each       int           // bytes of each of a flow's consecutive TCP connections; 0 for one long connection
	Rate       units.BitRate // UDP payload of all flows together, or of the load beside TCP
	Pace       int           // bytes of TCP payload per second and flow by pacing; 0 leaves it to TCP
	Beside     string        // load beside TCP: "udp" at Rate, "quic", or none
	Until      time.Duration // end of the load beside TCP; 0 is the end of the measurement
}

// is reports whether the load is of a transport, in any family.
func (work limitLoad) is(transport string) bool { return strings.HasPrefix(work.Network, transport) }

// beside returns the network of the load beside TCP.
func (work limitLoad) beside() string { return work.Beside + work.Network[len(work.Network)-1:] }

const datagramSize = 1400

// runLimitLoad is the limited end. It waits for its task, which arrives when its process is in its
// cgroup, reports when it is ready, and ends with its input. A receiver reports its address, and
// its counts for every line of input.
func runLimitLoad(in io.Reader, out io.Writer) error {
	lines, answers := bufio.NewReader(in), json.NewEncoder(out)
	task, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	var work limitLoad
	if err := json.Unmarshal(task, &work); err != nil {
		return err
	}
	if work.Receive {
		sink, err := work.listen()
		if err != nil {
			return err
		}
		err = answers.Encode(sink.address)
		for ; err == nil; err = answers.Encode(sink.counts()) {
			if _, err := lines.ReadBytes('\n'); err != nil {
				return nil
			}
		}
		return err
	}
	sender, err := work.send()
	if err != nil {
		return err
	}
	if err := answers.Encode("open"); err != nil {
		return err
	}
	for {
		if _, err := lines.ReadBytes('\n'); err != nil {
			return nil
		}
		if err := answers.Encode(sender.turn()); err != nil {
			return err
		}
	}
}

// send opens the flows, which send until they are closed, and a probe.
func (work limitLoad) send() (*limitSender, error) {
	ns, err := netns.Open(work.Namespace)
	if err != nil {
		return nil, err
	}
	defer func() { _ = ns.Close() }()
	s := &limitSender{}
	err = ns.Do(func() (err error) {
		s.probe, err = newLimitProbe(work.Address)
		return err
	})
	dialer := net.Dialer{Control: congestionOf(work.Network, work.Congestion, work.Pace)}
	for i := 0; i < work.Flows && err == nil; i++ {
		switch {
		case work.is("quic"):
			err = ns.Do(func() error { return s.sendQUIC(work.Network, work.Address) })
		case work.Each > 0:
			go s.sendEach(work, dialer)
		default:
			var conn net.Conn
			err = ns.Do(func() (err error) {
				conn, err = dialer.Dial(work.Network, work.Address)
				return err
			})
			if tcp, is := conn.(*net.TCPConn); is && err == nil {
				err = tcp.SetLinger(0) // otherwise written data would be sent beside the next measurement
			}
			if err == nil {
				s.add(conn)
				go sendLimitLoad(conn, work)
			}
		}
	}
	if err == nil {
		err = ns.Do(func() error { return s.sendBeside(work) })
	}
	return s, err
}

// sendBeside sends the load beside TCP.
func (s *limitSender) sendBeside(work limitLoad) error {
	switch work.Beside {
	case "quic":
		return s.sendQUIC(work.beside(), work.Address)
	case "udp":
		conn, err := net.Dial(work.beside(), work.Address)
		if err != nil {
			return err
		}
		s.add(conn)
		go sendLimitLoad(conn, limitLoad{Network: work.beside(), Rate: work.Rate, Flows: 1})
		if work.Until > 0 {
			time.AfterFunc(work.Until, func() { _ = conn.Close() })
		}
	}
	return nil
}

// congestionOf sets congestion control and pace of a TCP socket before it connects or listens:
// DCTCP requires the former at both ends.
func congestionOf(network, name string, pace int) func(string, string, syscall.RawConn) error {
	return func(_, _ string, raw syscall.RawConn) (err error) {
		if strings.HasPrefix(network, "tcp") {
			_ = raw.Control(func(fd uintptr) { err = errors.Join(congestion.Set(int(fd), name), setPace(int(fd), pace)) })
		}
		return err
	}
}

func setPace(fd, pace int) error {
	if pace == 0 {
		return nil
	}
	return unix.SetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE, uint64(pace))
}

// sendLimitLoad writes without end: TCP as fast as the connection accepts, UDP at its share of the
// rate.
func sendLimitLoad(conn net.Conn, work limitLoad) {
	if work.is("tcp") {
		message := make([]byte, 64<<10)
		for {
			if _, err := conn.Write(message); err != nil {
				return
			}
		}
	}
	message, began := make([]byte, datagramSize), time.Now()
	for sent := 0; ; {
		due := int(time.Since(began).Seconds() * float64(work.Rate) / 8 / float64(work.Flows) / datagramSize)
		for ; sent < due; sent++ {
			// This load is meant to have datagrams rejected.
			if _, err := conn.Write(message); errors.Is(err, net.ErrClosed) {
				return
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// limitSink counts arrivals in a namespace: bytes of payload, per connection if there are any.
type limitSink struct {
	io.Closer
	address string
	probes  io.Closer
	lock    sync.Mutex // guards flows
	flows   []*atomic.Int64
}

func (s *limitSink) flow() *atomic.Int64 {
	s.lock.Lock()
	defer s.lock.Unlock()
	count := new(atomic.Int64)
	s.flows = append(s.flows, count)
	return count
}

// Close ends the sink and the answers to probes.
func (s *limitSink) Close() error { return errors.Join(s.Closer.Close(), s.probes.Close()) }

// counts returns the bytes of each flow so far.
func (s *limitSink) counts() (octets []float64) {
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, count := range s.flows {
		octets = append(octets, float64(count.Load()))
	}
	return octets
}

// listen receives until the sink is closed.
func (work limitLoad) listen() (*limitSink, error) {
	ns, err := netns.Open(work.Namespace)
	if err != nil {
		return nil, err
	}
	defer func() { _ = ns.Close() }()
	s := &limitSink{}
	return s, ns.Do(func() error {
		if err := s.serveProbes(work.Address); err != nil {
			return err
		}
		switch {
		case work.is("udp"):
			return s.receive(work.Network, work.Address)
		case work.is("quic"):
			return s.serveQUIC(work.Address)
		}
		config := net.ListenConfig{Control: congestionOf(work.Network, work.Congestion, 0)}
		listener, err := config.Listen(context.Background(), work.Network, work.Address)
		if err != nil {
			return err
		}
		s.Closer, s.address = listener, listener.Addr().String()
		go s.accept(listener)
		switch work.Beside {
		case "udp":
			err = s.receive(work.beside(), s.address)
		case "quic":
			err = s.serveQUIC(s.address)
		default:
			return nil
		}
		s.Closer = both{listener, s.Closer}
		return err
	})
}

// receive counts datagrams as one flow.
func (s *limitSink) receive(network, address string) error {
	conn, err := net.ListenPacket(network, address)
	if err != nil {
		return err
	}
	s.Closer, s.address = conn, conn.LocalAddr().String()
	go s.drain(conn.(io.Reader), s.flow())
	return nil
}

// both closes two together.
type both [2]io.Closer

func (b both) Close() error { return errors.Join(b[0].Close(), b[1].Close()) }

func (s *limitSink) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = conn.Close() }()
			s.drain(conn, s.flow())
		}()
	}
}

func (s *limitSink) drain(from io.Reader, count *atomic.Int64) {
	buffer := make([]byte, 256<<10)
	for {
		n, err := from.Read(buffer)
		count.Add(int64(n))
		if err != nil {
			return
		}
	}
}
