// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// Redirect is the XDP program of a device that redirects its frames to sockets. It excludes other
// XDP programs.
type Redirect struct {
	objects redirectObjects
	link    link.Link
}

// Attach loads the program and attaches it, in native mode, to a device of the calling thread's
// namespace. The program drops frames of queues without a socket. multiBuffer accepts frames of
// several buffers.
func Attach(ifindex int, multiBuffer bool) (*Redirect, error) {
	r := &Redirect{}
	if err := loadRedirectObjects(&r.objects, nil); err != nil {
		return nil, fmt.Errorf("load AF_XDP redirect program: %w", err)
	}
	program := r.objects.ToSocket
	if multiBuffer {
		program = r.objects.ToSocketFrags
	}
	attached, err := link.AttachXDP(link.XDPOptions{Program: program, Interface: ifindex, Flags: link.XDPDriverMode})
	if err != nil {
		_ = r.objects.Close()
		return nil, fmt.Errorf("attach AF_XDP redirect program to device %d in native mode: %w", ifindex, err)
	}
	r.link = attached
	return r, nil
}

// Bring redirects the frames of a queue to a socket opened on that queue.
func (r *Redirect) Bring(queue int, s *Socket) error {
	if err := r.objects.Sockets.Update(uint32(queue), uint32(s.FD()), ebpf.UpdateAny); err != nil {
		return fmt.Errorf("bring queue %d to its AF_XDP socket: %w", queue, err)
	}
	return nil
}

// Close detaches the program.
func (r *Redirect) Close() error {
	err := r.link.Close()
	if closing := r.objects.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fmt.Errorf("detach AF_XDP redirect program: %w", err)
	}
	return nil
}
