/* Process 1 of a pod: waits for the end and buries orphans of containers that share its PID namespace. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void on_end(int signal_number) {
    (void)signal_number;
    _exit(EXIT_SUCCESS);
}

static void on_child(int signal_number) {
    (void)signal_number;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}

int main(void) {
    signal(SIGINT, on_end);
    signal(SIGTERM, on_end);
    signal(SIGCHLD, on_child);
    for (;;) {
        pause();
    }
}
