// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"weir/tester"
)

// running is a run in progress.
type running struct {
	*Session
	began   time.Time
	senders []Sender // by direction; nil for a remote sender
	links   *links

	mu   sync.Mutex // guards sent
	sent []tester.Generation
	last map[uint16]Stream // as of the previous reading
	at   time.Duration
	past []Reading

	kept  map[string][]tester.CapturedFrame // by receiving port
	load  load
	drops drops
}

// Run sends the schedules and returns the account. A cancelled ctx ends the run early and sets
// Stopped.
func (s *Session) Run(ctx context.Context) (Account, error) {
	n := len(s.config.Directions)
	r := &running{Session: s, began: time.Now(), senders: make([]Sender, n), sent: make([]tester.Generation, n), last: map[uint16]Stream{}}
	r.load, r.drops = startLoad(), s.startDrops()
	r.links = watch(s.ports, r.began)
	defer r.links.stop()
	if s.config.Ready != nil {
		s.config.Ready()
	}
	ended, err := r.start(ctx)
	if err != nil {
		return Account{}, err
	}
	stopped, err := r.follow(ctx, ended)
	if err != nil {
		return Account{}, err
	}
	r.straggle()
	account, err := r.account()
	if err != nil {
		return Account{}, err
	}
	if err := r.links.vanished(); err != nil {
		return Account{}, err
	}
	account.Stopped = stopped
	if err := r.capture(); err != nil {
		return Account{}, err
	}
	account.Captured = r.kept
	account.Steal, account.Others = r.load.steal(), r.load.others()
	account.Dropped = r.drops.since()
	account.LinkDown = r.links.wentDown()
	account.Neighbours = s.neighbours()
	account.Notes = slices.Concat(s.notes, r.links.stop(), account.remarks(s.config))
	return account, nil
}

// start starts every generator. The channel yields the first error, or closes when all have ended.
func (r *running) start(ctx context.Context) (<-chan error, error) {
	var wait sync.WaitGroup
	ended := make(chan error, len(r.senders))
	for i, d := range r.config.Directions {
		if !d.From.Here() {
			continue
		}
		sender, err := r.config.Engine.Send(ctx, d.From, d.Schedule)
		if err != nil {
			r.halt()
			wait.Wait()
			return nil, fmt.Errorf("send from %s: %w", d.From, err)
		}
		r.senders[i] = sender
		wait.Go(func() {
			generation, err := sender.Wait()
			r.mu.Lock()
			r.sent[i] = generation
			r.mu.Unlock()
			if err != nil && !errors.Is(err, context.Canceled) {
				ended <- fmt.Errorf("send from %s: %w", d.From, err)
			}
		})
	}
	go func() {
		wait.Wait()
		close(ended)
	}()
	return ended, nil
}

func (r *running) halt() {
	for _, sender := range r.senders {
		if sender != nil {
			sender.Stop()
		}
	}
}

// sends reports whether any generator is here.
func (r *running) sends() bool {
	return slices.ContainsFunc(r.senders, func(s Sender) bool { return s != nil })
}

// follow waits for the generators, or for the listening time, and takes a reading each second.
func (r *running) follow(ctx context.Context, ended <-chan error) (stopped bool, err error) {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	var over <-chan time.Time
	if !r.sends() {
		ended = nil
		if r.config.Listen > 0 {
			over = time.After(r.config.Listen)
		}
	}
	var look <-chan time.Time
	if r.config.Observe != nil && r.config.ObserveEvery > 0 {
		ticker := time.NewTicker(r.config.ObserveEvery)
		defer ticker.Stop()
		look = ticker.C
	}
	done := ctx.Done()
	for {
		select {
		case err, more := <-ended:
			if err == nil && !more {
				return stopped, nil
			}
			r.halt()
			for range ended { // the other generators end
			}
			if gone := r.links.vanished(); gone != nil {
				return stopped, gone
			}
			return stopped, err
		case err := <-r.links.gone:
			r.halt()
			for r.sends() { // generators end; their errors about a vanished device do not matter any more
				if _, more := <-ended; !more {
					break
				}
			}
			return stopped, err
		case <-over:
			return false, nil
		case <-done:
			if !r.sends() {
				return r.config.Listen > 0, nil
			}
			stopped, done = true, nil
			r.halt()
		case <-look:
			account, err := r.account()
			if err != nil {
				r.halt()
				return stopped, err
			}
			r.config.Observe(account)
		case <-second.C:
			if err := r.reading(); err != nil {
				r.halt()
				return stopped, err
			}
		}
	}
}

// straggle waits until every frame has arrived, or until none has for the configured time: a device
// with long queues delivers late. It ends at maxStraggle in any case.
func (r *running) straggle() {
	if !r.sends() || len(r.receivers) == 0 {
		return
	}
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	longest, quiet, arrived := time.After(max(maxStraggle, r.config.Straggle)), time.Now(), uint64(0)
	for {
		account, err := r.account()
		if err != nil || account.complete() {
			return
		}
		if n := account.received(); n != arrived {
			quiet, arrived = time.Now(), n
		}
		if time.Since(quiet) >= r.config.Straggle {
			return
		}
		select {
		case <-poll.C:
		case <-longest:
			return
		}
	}
}

// received counts the frames that have arrived, of all streams.
func (a Account) received() (n uint64) {
	for _, s := range a.Streams {
		if s.Received != nil {
			n += s.Received.Received
		}
	}
	return n
}

// complete reports that every frame has arrived.
func (a Account) complete() bool {
	return !slices.ContainsFunc(a.Streams, func(s Stream) bool { return s.Received != nil && s.Lost > 0 })
}
