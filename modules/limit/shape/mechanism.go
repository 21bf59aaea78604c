// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"fmt"
	"sync"
	"time"

	"weir/internal/direction"
	"weir/kernel/probe"
)

// Mechanism is the qdisc that delays packets.
type Mechanism string

const (
	Fq  Mechanism = "fq"  // until the departure time of each packet
	HTB Mechanism = "htb" // in a class of the same rate
)

// Available returns the best mechanism of this kernel for a direction. The error names the missing
// feature.
func Available(d direction.Direction) (Mechanism, error) {
	if d == direction.Ingress {
		if err := probes.get("ifb", probe.IFB); err != nil {
			return "", fmt.Errorf("shape received packets: %w", err)
		}
	}
	err := probes.qdisc("fq")
	if err == nil {
		return Fq, nil
	}
	if probes.qdisc("htb") == nil && probes.qdisc("pfifo") == nil {
		return HTB, nil
	}
	return "", fmt.Errorf("shape packets: %w", err)
}

// probes are those of this process. A policy asks for the same ones once per scope.
var probes = probed{results: map[string]result{}}

// probed keeps results of probes: a probe takes a network namespace. A success is final. A failure
// may be temporary (a module is loaded later, no space for a namespace) and holds for
// retryInterval.
type probed struct {
	sync.Mutex
	results map[string]result
}

const retryInterval = time.Second

type result struct {
	err error
	at  time.Time
}

func (p *probed) get(name string, probe func() error) error {
	p.Lock()
	defer p.Unlock()
	r, there := p.results[name]
	if !there || r.err != nil && time.Since(r.at) > retryInterval {
		r = result{probe(), time.Now()}
		p.results[name] = r
	}
	return r.err
}

func (p *probed) qdisc(kind string) error {
	return p.get(kind, func() error { return probe.Qdisc(kind) })
}
