// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"sync"
	"time"

	"weir/internal/fault"
	"weir/kernel/rtnl"
)

// links watches the carrier of the ports during a run.
type links struct {
	quit chan struct{}
	done chan struct{}
	gone chan error // the first device that vanished, or moved to another namespace
	once sync.Once
	// notes is written by the watching goroutine until done is closed.
	notes []string
	down  bool // some link went down
}

// LookAgain is the polling interval of the ports' links.
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
				device, err = conn.Device(ports[i].Device) // a dump may be inconsistent during a change, so query again
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
			last = true // one last look, for changes since the previous one
		}
	}
}

// vanish records that a port's device is gone: no figure of the run is valid.
func (l *links) vanish(port Port, after time.Duration, err error) {
	select {
	case l.gone <- fault.New(fault.Failed, "find the cause of the device's removal, and repeat the run", "port %s disappeared %.1f s into the run: %w", port, after.Seconds(), err):
	default:
	}
}

// vanished ends the watch and returns the error of a device that is gone, or nil.
func (l *links) vanished() error {
	l.stop()
	select {
	case err := <-l.gone:
		return err
	default:
		return nil
	}
}

// stop ends the watch and returns its notes.
func (l *links) stop() []string {
	l.once.Do(func() { close(l.quit) })
	<-l.done
	return l.notes
}

// wentDown ends the watch and reports whether any link went down.
func (l *links) wentDown() bool {
	l.stop()
	return l.down
}
