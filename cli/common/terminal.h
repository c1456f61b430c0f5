/* What reaches the terminal on standard output. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

/* From now on, whatever is printed shows what a terminal would otherwise obey, and on one its long lines are folded. */
void terminal_guard(void);

/* What follows keeps its long lines. */
void terminal_unfolded(void);

/* What follows is data for a program: into a pipe or a file it goes as it is. */
void terminal_data(void);

/* What follows is not printed at all. */
void terminal_silence(void);

#endif
