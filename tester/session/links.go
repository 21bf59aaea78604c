package session

import (
	"fmt"
	"sync"
	"time"

	"weir/internal/kernel/rtnl"
)

// links watches the carrier of the ports while a run lasts.
type links struct {
	quit chan struct{}
	done chan struct{}
	once sync.Once
	// notes is written by the watching goroutine until done is closed.
	notes []string
	down  bool // some link went down
}

// LookAgain is how often the ports are looked at.
const LookAgain = 100 * time.Millisecond

func watch(ports []Port, began time.Time) *links {
	l := &links{quit: make(chan struct{}), done: make(chan struct{})}
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
	down := make([]bool, len(ports))
	for {
		for i, conn := range conns {
			if conn == nil {
				continue
			}
			device, err := conn.Device(ports[i].Device)
			now := err != nil || !device.Running
			if now != down[i] {
				l.notes = append(l.notes, fmt.Sprintf("the link of %s went %s %.1f s into the run", ports[i], map[bool]string{true: "down", false: "up"}[now], time.Since(began).Seconds()))
				down[i] = now
				l.down = l.down || now
			}
		}
		select {
		case <-ticker.C:
		case <-l.quit:
			return
		}
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
