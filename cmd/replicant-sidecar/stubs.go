package main

import "github.com/spf13/cobra"

func newRun() *cobra.Command  { return &cobra.Command{Use: "run", GroupID: groupStart, Hidden: true} }
func newTail() *cobra.Command { return &cobra.Command{Use: "tail", GroupID: groupStart, Hidden: true} }
