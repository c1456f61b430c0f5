# Headers as Doxygen wants them: its own comment signs, the opening comment as the file's, and each struct and enum under one name.
/^\/\* ----/{
/\*\//!N
d
}
1s,^/\* ,/** @file\n * ,
s,^( *)/\* ,\1/** ,
s,([];{A-Za-z0-9_,]) +/\* ,\1 /**< ,
s,^typedef (struct|enum) ([a-z0-9_]+) \{,\1 \2 {,
s,^\} circe_[a-z0-9_]+;,};,
