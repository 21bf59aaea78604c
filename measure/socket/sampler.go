// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"sync"
	"sync/atomic"
	"time"

	"weir/measure/record"
)

const (
	// Interval is the time between two readings of TCP_INFO.
	Interval = 10 * time.Millisecond
	// queueTime is the time that the unsent bytes of a sender's socket take at the current rate:
	// enough for the sender to wake up, little enough that a text message is not late.
	queueTime = 10 * time.Millisecond
	// minQueue is the least TCP_NOTSENT_LOWAT in bytes, and its value at the start.
	minQueue = 16 << 10
	maxQueue = 64 << 20
)

// Sampler reads TCP_INFO of all running tests each 10 ms in one goroutine, which runs only while
// there are tests. The zero value is ready. It is safe for concurrent use.
type Sampler struct {
	mu      sync.Mutex // guards running and the set
	running bool
	series  map[*Series]struct{}
}

// Series are the readings of one connection.
type Series struct {
	sampler *Sampler
	socket  Socket
	sender  bool
	start   time.Time
	rate    atomic.Uint64 // byte/s
	bytes   atomic.Uint64

	mu      sync.Mutex // guards the following fields
	samples record.Samples
	missed  int
	last    time.Duration
	lowat   int
}

// Add starts to sample a socket. A sender's TCP_NOTSENT_LOWAT follows its rate.
func (s *Sampler) Add(socket Socket, sender bool, start time.Time) *Series {
	series := &Series{sampler: s, socket: socket, sender: sender, start: start, lowat: minQueue}
	if sender {
		_ = socket.SetNotsentLowat(minQueue)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.series == nil {
		s.series = map[*Series]struct{}{}
	}
	s.series[series] = struct{}{}
	if !s.running {
		s.running = true
		go s.run()
	}
	return series
}

func (s *Sampler) run() {
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	var all []*Series
	for range tick.C {
		all = all[:0]
		s.mu.Lock()
		for series := range s.series {
			all = append(all, series)
		}
		if s.running = len(all) > 0; !s.running {
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		for _, series := range all {
			series.read()
		}
	}
}

// Rate returns the current rate in byte/s, as TCP delivers (sender) or receives; 0 at the start.
func (s *Series) Rate() uint64 { return s.rate.Load() }

// Bytes returns the bytes acknowledged (sender) or received at the last reading.
func (s *Series) Bytes() uint64 { return s.bytes.Load() }

// Wait returns the time until the socket has queued less than its limit; 0 if it has already, or if
// the limit is so high that TCP_NOTSENT_LOWAT keeps it: with a limit of 16 KiB, 39 to 65 KiB stood
// unsent.
func (s *Series) Wait() time.Duration {
	rate := s.rate.Load()
	limit := max(rate*uint64(queueTime)/uint64(time.Second), minQueue)
	if limit > 64<<10 {
		return 0
	}
	info, err := s.socket.Info()
	if err != nil || uint64(info.Notsent_bytes) <= limit {
		return 0
	}
	if rate == 0 {
		return time.Millisecond
	}
	excess := uint64(info.Notsent_bytes) - limit
	return min(max(time.Duration(excess*uint64(time.Second)/rate), time.Millisecond), 50*time.Millisecond)
}

// Stop ends the series. missed counts readings that were late by more than an interval or failed.
func (s *Series) Stop() (samples record.Samples, missed int) {
	s.sampler.mu.Lock()
	delete(s.sampler.series, s)
	s.sampler.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.samples, s.missed
}

func (s *Series) read() {
	info, err := s.socket.Info()
	at := time.Since(s.start)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.missed++
		return
	}
	s.missed += max(0, int((at-s.last)/Interval)-1)
	s.last = at
	bytes := info.Bytes_received
	if s.sender {
		bytes = info.Bytes_acked
	}
	v := &s.samples
	v.ElapsedTime = append(v.ElapsedTime, uint32(at.Microseconds()))
	v.RTT = append(v.RTT, info.Rtt)
	v.SndCwnd = append(v.SndCwnd, info.Snd_cwnd)
	v.NotsentBytes = append(v.NotsentBytes, info.Notsent_bytes)
	v.Retrans = append(v.Retrans, info.Total_retrans)
	v.Bytes = append(v.Bytes, bytes)
	v.DeliveryRate = append(v.DeliveryRate, info.Delivery_rate)
	s.bytes.Store(bytes)
	s.follow(info.Delivery_rate)
}

// follow updates the rate from the last 100 ms and the kernel's estimate, and TCP_NOTSENT_LOWAT.
func (s *Series) follow(delivery uint64) {
	v := &s.samples
	to := len(v.Bytes) - 1
	from := max(0, to-10)
	rate := uint64(0)
	if span := v.ElapsedTime[to] - v.ElapsedTime[from]; span > 0 {
		rate = (v.Bytes[to] - v.Bytes[from]) * 1e6 / uint64(span)
	}
	if !s.sender {
		s.rate.Store(rate)
		return
	}
	rate = max(rate, delivery)
	s.rate.Store(rate)
	want := int(min(max(rate*uint64(queueTime)/uint64(time.Second), minQueue), maxQueue))
	if want > s.lowat*5/4 || want < s.lowat/2 {
		if s.socket.SetNotsentLowat(want) == nil {
			s.lowat = want
		}
	}
}
