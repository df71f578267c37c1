package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"layover/internal/cli"
)

func serveCommand() *cobra.Command {
	var watched bool
	cmd := &cobra.Command{
		Use:   "serve [file]",
		Short: "Run the proxy",
		Long: `Serve runs the proxy that the file (default ./layover.yaml) describes, until it is told to stop.

When the file changes, and on SIGHUP, it is read again: it is checked first, then what changed is put into force
at once, and what did not change is left alone. If something is wrong with it, the configuration in force stays.
A change is seen within two seconds, also through symbolic links; --watch=false leaves it to SIGHUP.

With an envoy section in the file it also answers an Envoy in front, and says how to start that one.

SIGTERM and SIGINT stop it: it is no longer ready, requests that wait are served or end by their budget, then
the actors are stopped. A second signal stops it at once. In either case no process is left.`,
		Args: cli.Args(0, 1, "serve layover.yaml"),
		RunE: func(cmd *cobra.Command, args []string) error {
			reload := make(chan os.Signal, 1) // one more reload is as good as many
			signal.Notify(reload, syscall.SIGHUP)
			defer signal.Stop(reload)
			stop := make(chan os.Signal, 2) // a channel of its own, so that no reload can crowd it out
			signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
			defer signal.Stop(stop)
			file, err := named(cmd, args)
			if err != nil {
				return err
			}
			return serve(file, cmd.OutOrStdout(), cmd.ErrOrStderr(), watched, reload, stop)
		},
	}
	cmd.Flags().String("config", defaultConfig, "the configuration file")
	cmd.Flags().BoolVar(&watched, "watch", true, "reload when the file changes")
	return cmd
}

// serve runs the proxy that file describes until stop says to stop. It prints
// to out where it listens, and logs to logs, in JSON also what ends it.
func serve(file string, out, logs io.Writer, watched bool, reload, stop <-chan os.Signal) error {
	c, err := loadOrSay(file, logs)
	if err != nil {
		return err
	}
	level := new(slog.LevelVar)
	level.Set(c.LogLevel)
	log := cli.NewLog(logs, level, c.LogFormat)
	sayWarnings(c, logs, log)
	err = serveConfig(c, out, log, level, watched, reload, stop)
	if err != nil && c.LogFormat == cli.FormatJSON {
		log.Error("layover ends", "err", err)
		return cli.Failed
	}
	return err
}

// sayWarnings prints the warnings of a file to w, or logs them if the log is
// for programs.
func sayWarnings(c *config, w io.Writer, log *slog.Logger) {
	if c.LogFormat != cli.FormatJSON {
		c.warnings.print(w)
		return
	}
	for _, line := range c.warnings.lines("") {
		log.Warn(line)
	}
}

func serveConfig(c *config, out io.Writer, log *slog.Logger, level *slog.LevelVar, watched bool, reload, stop <-chan os.Signal) error {
	s, err := start(c, log, level, nil)
	if err != nil {
		return err
	}
	for _, url := range s.urls() {
		fmt.Fprintln(out, url)
	}
	defer s.notifying()()
	var changed chan struct{}
	if info, err := os.Stat(c.file); watched && err == nil && !info.Mode().IsRegular() {
		log.Info("the configuration is no regular file: it is not read again", "file", c.file)
		watched = false
	}
	if watched {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		changed = make(chan struct{}, 1)
		look := func() string { return digest(readAgain(c.file)) }
		go watch(ctx, look, s.lastTried, changed) // ends with ctx; nobody waits, as it may hang
	}
	return s.run(reload, stop, changed)
}
