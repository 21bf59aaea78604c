// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"

	"weir/internal/fault"
	"weir/tester"
	"weir/tester/analyzer"
	"weir/tester/generator"
)

// machine is the engine of this machine: BPF generators and analyzers.
type machine struct{}

// real marks the engines that use devices: their ports must be checked first.
func (machine) real() {}

func (machine) Send(ctx context.Context, from Port, schedule tester.Schedule) (Sender, error) {
	port := generator.Port{Namespace: from.Namespace, Device: from.Device, CPUs: from.CPUs}
	if from.Peer != nil {
		port.Peer = &generator.Port{Namespace: from.Peer.Namespace, Device: from.Peer.Device}
	}
	running, err := generator.Start(ctx, port, schedule)
	if err != nil {
		return nil, fault.Wrap(err, fault.Failed, "run 'weir doctor' to list this kernel's features")
	}
	return running, nil
}

func (machine) Receive(to Port, expect Reception) (Receiver, error) {
	a, err := analyzer.Attach(to.Namespace, to.Device, analyzer.Options{Streams: expect.Streams, Capture: expect.Capture, Relative: expect.Relative})
	if err != nil {
		return nil, fault.Wrap(err, fault.Failed, "run 'weir doctor' to list this kernel's features")
	}
	return a, nil
}
