// Command passer passes points as often as it is told to and prints a line after each.
package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

func main() {
	if os.Args[1] != "careless" {
		if err := failpoint.Load(); err != nil {
			fmt.Println(err)
			os.Exit(2)
		}
	}
	times, _ := strconv.Atoi(os.Args[2])
	for i := range times {
		err := failpoint.Hit(failpoint.CallBefore)
		fmt.Println(i+1, err)
	}
	fmt.Println("other", failpoint.Hit(failpoint.DeliverAfter))
}
