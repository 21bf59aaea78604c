// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"sync"
	"time"

	"weir/internal/fault"
	"weir/kernel/rtnl"
)

// links watches the carrier of the ports while a run lasts.
type links struct {
	quit chan struct{}
	done chan struct{}
	gone chan error // the first device that vanished, or went to another namespace
	once sync.Once
	// notes is written by the watching goroutine until done is closed.
	notes []string
	down  bool // some link went down
}

// LookAgain is how often the ports are looked at.
const LookAgain = 100 * time.Millisecond

func watch(ports []Port, began time.Time) *links {
	l := &links{quit: make(chan struct{}), done: make(chan struct{}), gone: make(chan error, 1)}
	go l.look(ports, began)
	return l
}

// look polls: a link that goes down and up within LookAgain is missed.
func (l *links) look(ports []Port, began time.Time) {
	defer close(l.done)
	ticker := time.NewTicker(LookAgain)
	defer ticker.Stop()
	conns := make([]*rtnl.Conn, len(ports))
	for i, port := range ports {
		conn, err := rtnl.Open(port.Namespace)
		if err != nil {
			l.notes = append(l.notes, fmt.Sprintf("the link of %s was not watched: %v", port, err))
			continue
		}
		defer conn.Close()
		conns[i] = conn
	}
	down, last := make([]bool, len(ports)), false
	for {
		for i, conn := range conns {
			if conn == nil {
				continue
			}
			device, err := conn.Device(ports[i].Device)
			if err != nil {
				device, err = conn.Device(ports[i].Device) // the kernel may have been asked in the middle of a change
			}
			if err != nil {
				l.vanish(ports[i], time.Since(began), err)
			}
			now := err != nil || !device.Running
			if now != down[i] {
				l.notes = append(l.notes, fmt.Sprintf("the link of %s went %s %.1f s into the run", ports[i], map[bool]string{true: "down", false: "up"}[now], time.Since(began).Seconds()))
				down[i] = now
				l.down = l.down || now
			}
		}
		if last {
			return
		}
		select {
		case <-ticker.C:
		case <-l.quit:
			last = true // one look more, for what happened since the one before
		}
	}
}

// vanish says that a port's device is not there any more: no figure of the run means anything.
func (l *links) vanish(port Port, after time.Duration, err error) {
	select {
	case l.gone <- fault.New(fault.Failed, "see what removed the device, and run it again", "port %s was there no more %.1f s into the run: %w", port, after.Seconds(), err):
	default:
	}
}

// vanished is the error of a device that is not there any more, or nil; it ends the watch.
func (l *links) vanished() error {
	l.stop()
	select {
	case err := <-l.gone:
		return err
	default:
		return nil
	}
}

// stop ends the watch and returns what it saw.
func (l *links) stop() []string {
	l.once.Do(func() { close(l.quit) })
	<-l.done
	return l.notes
}

// wentDown says whether any link did; it ends the watch.
func (l *links) wentDown() bool {
	l.stop()
	return l.down
}
