// SPDX-License-Identifier: Apache-2.0

// Package cni makes the program the CNI plugin weir: a runtime runs it with CNI_COMMAND and a
// configuration on standard input, and reads a result or an error from standard output.
package cni

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"weir/core/cni"
	"weir/core/engine"
	"weir/internal/fault"
)

// Called reports whether a container runtime runs the program as its plugin.
func Called() bool { return os.Getenv("CNI_COMMAND") != "" }

// versions are the supported versions of the specification. Earlier ones have other results.
var versions = version.PluginSupports("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")

// Main runs one command of the plugin and returns the exit status.
func Main(newEngine func() (*engine.Engine, error)) fault.Status {
	do := func(f func(*engine.Engine, cni.Config, cni.Attachment) error) func(*skel.CmdArgs) error {
		return func(args *skel.CmdArgs) error {
			c, err := cni.ParseConfig(args.StdinData)
			if err != nil {
				return problem(err)
			}
			e, err := newEngine()
			if err == nil {
				err = f(e, c, cni.Attachment{ContainerID: args.ContainerID, Netns: args.Netns, IfName: args.IfName, Args: args.Args})
			}
			return problem(err)
		}
	}
	failed := skel.PluginMainFuncsWithError(skel.CNIFuncs{
		Add:   func(args *skel.CmdArgs) error { return add(args, do(cni.Add)) },
		Check: do(cni.Check),
		Del:   do(cni.Delete),
		GC:    do(func(e *engine.Engine, c cni.Config, _ cni.Attachment) error { return cni.Collect(e, c) }),
		Status: do(func(e *engine.Engine, c cni.Config, _ cni.Attachment) error {
			if err := cni.Status(e, c); err != nil {
				return &types.Error{Code: codeNotAvailable, Msg: err.Error(), Details: fault.Advice(err)}
			}
			return nil
		}),
	}, versions, "")
	if failed == nil {
		return fault.OK
	}
	if err := printError(os.Stdout, failed); err != nil {
		fmt.Fprintln(os.Stderr, failed)
	}
	return fault.Failed
}

// printError writes an error as the specification has it.
func printError(out io.Writer, failed *types.Error) error {
	text, err := json.MarshalIndent(struct {
		CNIVersion string `json:"cniVersion"`
		*types.Error
	}{version.Current(), failed}, "", "  ")
	if err == nil {
		_, err = fmt.Fprintln(out, string(text))
	}
	return err
}

// add limits the attachment and passes the result of the plugins before on.
func add(args *skel.CmdArgs, limit func(*skel.CmdArgs) error) error {
	conf := types.NetConf{}
	if err := json.Unmarshal(args.StdinData, &conf); err != nil {
		return &types.Error{Code: types.ErrDecodingFailure, Msg: err.Error()}
	}
	if conf.RawPrevResult == nil {
		return &types.Error{Code: types.ErrInvalidNetworkConfig, Msg: "prevResult: it is missing: weir limits the device that another plugin creates",
			Details: "place weir after that plugin in the configuration list"}
	}
	if err := version.ParsePrevResult(&conf); err != nil {
		return &types.Error{Code: types.ErrDecodingFailure, Msg: "prevResult: " + err.Error()}
	}
	result, err := current.NewResultFromResult(conf.PrevResult)
	if err != nil {
		return &types.Error{Code: types.ErrDecodingFailure, Msg: "prevResult: " + err.Error()}
	}
	if err := limit(args); err != nil {
		return err
	}
	return types.PrintResult(result, conf.CNIVersion)
}

// Codes of errors; those from 100 are the plugin's own.
const (
	codeNotAvailable = 50 // of STATUS: the plugin cannot serve ADD
	codeFailed       = 100
	codeTestbed      = 101 // the kernel lacks a feature
	codePermission   = 102
)

// problem returns an error in the form of the specification: nil for nil.
func problem(err error) error {
	if err == nil {
		return nil
	}
	if _, is := err.(*types.Error); is {
		return err
	}
	code := map[fault.Status]uint{fault.Usage: types.ErrInvalidNetworkConfig, fault.Testbed: codeTestbed, fault.Permission: codePermission}[fault.Of(err)]
	if code == 0 {
		code = codeFailed
	}
	return &types.Error{Code: code, Msg: err.Error(), Details: fault.Advice(err)}
}
