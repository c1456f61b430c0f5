/* Reading columns of a table in memory, as a file of the same cells would be read. */
#pragma once

#include "circe/job.h"
#include "io/io.h"
#include "io/list.h"

/* Of names and cells, to tell tables apart. */
uint64_t memory_table_hash(const circe_table *table);

/* The columns of these names (or numbers, from 0), in their order. */
circe_status memory_table_read(const circe_table *table, const name_list *wanted, const io_reading *how, io_table *out);

/* The same with the names as an option lists them; one that is there as it stands needs no quotes. */
circe_status memory_table_select(const circe_table *table, const char *option, const char *columns,
                                 const io_reading *how, io_table *out);
